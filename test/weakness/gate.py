"""Stands between a client and its server, and holds back one command."""

import socket
import threading


class Gate:
    """Passes everything on, in both directions, until a client sends the command `word` with so
    many words in all: that, and all that this client sends after it, waits until open()."""

    def __init__(self, port, count, word):
        self.beginning = b"*%d\r\n$%d\r\n%s\r\n" % (count, len(word), word)
        self.port_behind = port
        self.met = threading.Event()
        self.opened = threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.sockets = []
        self.closed = False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.port_behind))
            self.sockets += [client, server]
            threading.Thread(target=self.forward, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self.forward, args=(server, client, False), daemon=True).start()

    def forward(self, source, target, guarded):
        """A command is never cut in two by a client this small: what comes is looked at whole."""
        try:
            while data := source.recv(65536):
                at = data.find(self.beginning) if guarded and not self.opened.is_set() else -1
                if at >= 0:
                    target.sendall(data[:at])
                    self.met.set()
                    self.opened.wait()
                    data = data[at:]
                if self.closed:
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def open(self):
        self.opened.set()

    def close(self):
        """What is held back then is never sent."""
        self.closed = True
        self.listener.close()
        self.opened.set()
        for end in self.sockets:
            end.close()
