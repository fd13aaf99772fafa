//go:build !unix

package workload

import (
	"fmt"
	"time"
)

func cpuTime() (time.Duration, error) {
	return 0, fmt.Errorf("processor time of this process: %w on this system", ErrUnsupported)
}
