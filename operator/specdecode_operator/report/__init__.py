"""A run's report: what its record holds, in; one HTML file that a person can keep, print and send, out.

Data goes one way: `case` reads the record and judges it again, `series` and `told` turn samples into the numbers of a
picture, `charts` draws them with `svg`, `words` says what they mean, `page` puts it together.

No I/O, no clock and no network, neither here nor in what comes out: scripts, fonts, styles and pictures of elsewhere
have no place in it. Whatever a record holds is text of strangers: it is escaped where it is put in, never before.
"""
