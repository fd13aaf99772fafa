//go:build !unix

package workload

import (
	"fmt"
	"time"
)

func CPUTime() (time.Duration, error) {
	return 0, fmt.Errorf("processor time of this process: %w on this system", ErrUnsupported)
}
