import sys

from tools.pipeline.uf2.uf2 import main

sys.exit(main())
