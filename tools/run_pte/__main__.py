import sys

from tools.run_pte.run_pte import main

sys.exit(main())
