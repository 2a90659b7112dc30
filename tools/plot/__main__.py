import sys

from tools.plot.plot import main

sys.exit(main())
