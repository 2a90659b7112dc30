import sys

from tools.pipeline.sign.sign import main

sys.exit(main())
