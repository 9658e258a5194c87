"""`make bench-gpu`: one engine line on one GPU, stock against patched and each optimization on against off.

arms (what is compared, who is asked when) > models, engine (one engine in a process of its own) > campaign (starts the
engines, visits them in turn, keeps what they say) > ratios, report (what follows from it).  arms, ratios and report are
pure; profile beside them says where one engine's step goes.
"""
