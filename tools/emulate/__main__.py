import sys

from tools.emulate.emulate import main

sys.exit(main())
