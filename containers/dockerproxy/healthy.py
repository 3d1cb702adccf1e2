"""Exit code 0 where the engine answers through the filter."""

import socket
import sys

with socket.socket(socket.AF_UNIX) as visitor:
    visitor.settimeout(5)
    visitor.connect("/run/engine/docker.sock")
    visitor.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
    sys.exit(b" 200 " not in visitor.recv(64))
