package slot

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"spore/agent/paths"
	"spore/agent/wait"
	"spore/storage/flash"
)

// OpenDevice opens a disk of which partitions are in use, or a partition for this process alone. The ESP may be mounted for a
// moment by the unit that takes the bundle.
func OpenDevice(ctx context.Context, root paths.Root, path string, whole bool, say func(string)) (Device, error) {
	if whole {
		return flash.OpenShared(root.At(path))
	}
	var d *flash.File
	var openErr error
	err := wait.Until(ctx, wait.Condition{For: path + " to be free", Bound: espBound, Every: time.Second, Say: say, Met: func() bool {
		d, openErr = flash.Open(root.At(path))
		return !errors.Is(openErr, unix.EBUSY)
	}})
	if openErr != nil {
		return nil, openErr
	}
	return d, err
}

// espBound is the longest wait for the ESP while another unit takes the node's bundle off it.
const espBound = 30 * time.Second
