import FMCommand
import FMCore
