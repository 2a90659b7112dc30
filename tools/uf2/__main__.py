import sys

from tools.uf2.uf2 import main

sys.exit(main())
