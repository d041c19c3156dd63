"""How a layer of any hand is built and called, and how its weights are read: by names, by shapes."""
