import sys

from tools.verify.emulate.emulate import main

sys.exit(main())
