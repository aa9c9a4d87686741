"""The queue of gangs: who is served before whom, when each is expected to start, and what is kept free until then."""
