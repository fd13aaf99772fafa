package layout

import (
	"strconv"

	"github.com/greenroom-go/greenroom/entity"
)

// NumberOf returns the number of a command for devices that know commands by one. It is part of the
// id of the command, so that an answer that comes after a reconnect, or a restart of the server,
// is still known: 31 bits, because devices keep it in an int. Two open commands of an entity may
// have one number, though hardly ever.
func NumberOf(c *entity.Command) int64 {
	n, err := strconv.ParseInt(c.ID, 36, 64)
	if err != nil {
		return 0 // no id of the runtime's
	}
	return n & (1<<31 - 1)
}
