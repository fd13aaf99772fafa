package layout

import (
	"strconv"

	"github.com/greenroom-go/greenroom/entity"
)

// NumberOf returns the number of a command, for devices that identify commands by number. It is
// derived from the command's id, so that an answer after a reconnect, or a restart of the server,
// is still recognized. It has 31 bits, because devices store it in an int. In rare cases, two open
// commands of an entity have the same number.
func NumberOf(c *entity.Command) int64 {
	n, err := strconv.ParseInt(c.ID, 36, 64)
	if err != nil {
		return 0 // not an id of the runtime
	}
	return n & (1<<31 - 1)
}
