import sys

from conformance.op_db import main

# Imported: what its classes are pickled by is their module's name.
sys.exit(main())
