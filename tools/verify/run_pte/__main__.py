import sys

from tools.verify.run_pte.run_pte import main

sys.exit(main())
