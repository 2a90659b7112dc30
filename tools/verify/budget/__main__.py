import sys

from tools.verify.budget.budget import main

sys.exit(main())
