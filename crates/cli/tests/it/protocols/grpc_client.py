"""Every kind of call, one message at a time where both sides speak."""
import os, queue
import grpc

metadata = (("authorization", "Bearer " + os.environ["TOKEN"]),)
channel = grpc.secure_channel("api.allowed.test:443", grpc.ssl_channel_credentials())
grpc.channel_ready_future(channel).result(timeout=120)

answer, call = channel.unary_unary("/test.Echo/Unary").with_call(b"hello", metadata=metadata)
print("unary", answer.decode(), dict(call.trailing_metadata())["x-seen"])

answers = channel.unary_stream("/test.Echo/Down")(b"5", metadata=metadata)
print("down", b"".join(answers).decode())

print("up", channel.stream_unary("/test.Echo/Up")(iter([b"x" * 100_000] * 20), metadata=metadata).decode())

said = queue.Queue()
answers = channel.stream_stream("/test.Echo/Both")(iter(said.get, None), metadata=metadata)
for number in range(5):
    said.put(b"%d" % number)
    assert next(answers) == b"%d" % number
said.put(None)
assert list(answers) == []
print("both", answers.code().name)

try:
    channel.unary_unary("/test.Echo/Unary")(b"hello", metadata=(("authorization", "wrong"),))
except grpc.RpcError as error:
    print("wrong", error.code().name, error.details())

try:
    channel.unary_unary("/test.Echo/Unary")(os.environ["TOKEN"].encode(), metadata=metadata)
except grpc.RpcError as error:
    print("refused", error.code().name, error.details())
