"""A trial: a database, simulated platforms, the service, and a client; all of it is stopped in any
case."""

import random

from lib.books import Reader
from lib.comparison import Findings
from lib.load import Load
from lib.processes import Platforms


class Trial:
    """The basis of every trial. Creating one runs it."""

    def __init__(self, options, books_of, folder):
        self.options, self.folder = options, folder
        self.random = random.Random(options.seed)
        self.findings = Findings()
        self.platforms = self.load = self.reader = self.books = None
        self.services = []
        try:
            self.books = books_of(folder)
            self.platforms = Platforms(options.binary, folder)
            self.carry_out()
        finally:
            if self.load:
                self.load.ended.set()
            if self.reader:
                self.reader.ended.set()
            for child in (*(service.child for service in self.services), self.platforms):
                if child:
                    child.kill()
            if self.books:
                self.books.drop()

    def carry_out(self):
        """Runs everything, from the first start to the comparison."""
        raise NotImplementedError

    def checked(self):
        """How much was checked, by kind."""
        raise NotImplementedError

    def begin_reading(self, customer, *, may_break=False):
        """Starts a reader of the balance."""
        self.reader = Reader(self.books, customer, may_break=may_break)
        self.reader.start()

    def begin_load(self, customer, key):
        """Lets the clients call all services."""
        self.customer = customer
        self.load = Load(self.services, key, self.platforms, self.options.rps, self.options.seed)
        self.load.start()

    def stop_services(self):
        """Ends the services as Ctrl-C does."""
        codes = [code for code in (service.child.stop() for service in self.services) if code]
        self.findings.add("exit codes of a stopped service other than 0", codes)
