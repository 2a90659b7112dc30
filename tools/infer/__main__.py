import sys

from tools.infer.infer import main

sys.exit(main())
