-- Each message waits for its row, and what these found is found by its name, or looked for now and then.
DROP INDEX messages_begun_until;
DROP INDEX messages_begun_turn;
