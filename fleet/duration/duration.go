// Package duration is how commands read a length of time that may be days.
package duration

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads a positive time such as 30d or 12h.
func Parse(text string) (time.Duration, error) {
	bad := fmt.Errorf("%.40q is not a time; write for instance 30d or 12h", text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil || n == 0 {
			return 0, bad
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, bad
	}
	return d, nil
}
