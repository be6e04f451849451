package unit

import (
	"fmt"
	"strconv"
	"strings"

	"spore/services/metrics/room"
)

// Bound is what data may fill in bytes, of a text such as 21474836480, or 80%, which is a share of the file system of
// their folder.
func Bound(dir, text string) (uint64, error) {
	percent, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.ParseUint(percent, 10, 63)
	switch {
	case err != nil || isShare && (n == 0 || n > 100):
		return 0, fmt.Errorf("%.64q is no size; write a whole number of bytes, or a share such as 80%%", text)
	case !isShare:
		return n, nil
	}
	all, err := room.Capacity(dir)
	if err != nil {
		return 0, err
	}
	return all / 100 * n, nil
}
