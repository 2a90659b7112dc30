import sys

from tools.verify.exploration.exploration import main

sys.exit(main())
