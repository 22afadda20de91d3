# What the owner of the account does, and sees.
cd ~
unit() { systemctl --user show keyless-broker --value -p "$1"; }
state() { keyless status | grep -o 'Broker: *[a-z]*' | tr -s ' '; }
(umask 077; echo 'correct horse battery staple 7' > passphrase)
export KEYLESS_PASSPHRASE_FILE=$PWD/passphrase
keyless init --recovery-file phrase > /dev/null
printf %s value-of-the-test | keyless secret add team/api/token --to api.test --env API_TOKEN --value-stdin > /dev/null
keyless broker install --passphrase-file passphrase > /dev/null
systemctl --user daemon-reload
systemctl --user enable --quiet --now keyless-broker
echo "started: $(state)"

systemctl --user kill -s KILL keyless-broker
until [ "$(unit NRestarts) $(unit ActiveState)" = "1 active" ]; do sleep 0.1; done
echo "restarted: $(state)"

mkdir work
cd work
# With a passphrase it would open the store by itself.
env -u KEYLESS_PASSPHRASE_FILE keyless run --quiet --secret team/api/token -- sh -c 'umask > mask; exec sleep 60' > /dev/null 2>&1 &
until [ -s mask ]; do sleep 0.1; done
systemctl --user stop keyless-broker
echo "stopped: $(unit ActiveState), $(unit Result), $(state), sockets: $(find "$XDG_RUNTIME_DIR/keyless" -type s | wc -l)"
keyless audit tail -n 20 | grep -o session_end | tail -n 1

echo wrong > ~/passphrase
systemctl --user start keyless-broker 2> /dev/null || echo "a wrong passphrase: $(unit ActiveState), $(unit NRestarts) restarts"
