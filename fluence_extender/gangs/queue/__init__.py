"""The queue of gangs: their order, their expected starts, and the room that is kept free for them."""
