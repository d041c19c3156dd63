"""Laws: how a layer's time and memory grow, where one layer begins to win, and how long a sequence fits."""
