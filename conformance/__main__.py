import sys

from conformance.op_db import main

sys.exit(main())
