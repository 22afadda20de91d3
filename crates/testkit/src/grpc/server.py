"""A gRPC server over TLS: repeats messages in every kind of call, and asks for a bearer token."""
import concurrent.futures, sys
import grpc

key, chain, token = (open(path, "rb").read() for path in sys.argv[1:4])
token = token.decode()

def admitted(context):
    given = dict(context.invocation_metadata()).get("authorization")
    context.set_trailing_metadata((("x-seen", given or ""),))
    if given != "Bearer " + token:
        context.abort(grpc.StatusCode.UNAUTHENTICATED, "not " + token)

def unary(request, context):
    admitted(context)
    return request + b" for " + token.encode()

def down(request, context):
    admitted(context)
    for number in range(int(request)):
        yield b"%d" % number

def up(requests, context):
    admitted(context)
    return b"%d" % sum(len(request) for request in requests)

def both(requests, context):
    admitted(context)
    for request in requests:
        yield request

class Service(grpc.GenericRpcHandler):
    def service(self, call):
        return {
            "/test.Echo/Unary": grpc.unary_unary_rpc_method_handler(unary),
            "/test.Echo/Down": grpc.unary_stream_rpc_method_handler(down),
            "/test.Echo/Up": grpc.stream_unary_rpc_method_handler(up),
            "/test.Echo/Both": grpc.stream_stream_rpc_method_handler(both),
        }.get(call.method)

server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((Service(),))
port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, chain)]))
server.start()
print(port, flush=True)
server.wait_for_termination()
