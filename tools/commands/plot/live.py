import sys

from tools.commands.plot.plot import main

sys.exit(main(["--window", *sys.argv[1:]]))
