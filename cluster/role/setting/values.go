package setting

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"spore/cluster/form"
)

// Size is a number of bytes. A template that prints it prints the number.
type Size int64

// KiB, MiB and GiB are the whole units in it.
func (s Size) KiB() int64 { return int64(s) >> 10 }

// MiB is the number of whole MiB in it.
func (s Size) MiB() int64 { return int64(s) >> 20 }

// GiB is the number of whole GiB in it.
func (s Size) GiB() int64 { return int64(s) >> 30 }

// Text is the size as a file has it.
func (s Size) Text() string {
	for i := len(units) - 1; i >= 0; i-- {
		if u := units[i]; s != 0 && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.name)
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// units are those of a size, the smallest first.
var units = []struct {
	name  string
	bytes Size
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}}

// maxSize is the largest size that every reader of JSON keeps, in bytes: 8 PiB.
const maxSize = maxWhole

var sizeForm = form.New(`^([0-9]{1,15})(?:\.([0-9]{1,6}))?(KiB|MiB|GiB|TiB)$`)

// ParseSize reads a size such as 64MiB or 1.5GiB.
func ParseSize(text string) (Size, error) {
	bad := fmt.Errorf("%.40q is not a size; write a number with KiB, MiB, GiB or TiB, such as 64MiB", text)
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		return 0, bad
	}
	number, ok := new(big.Rat).SetString(m[1] + "." + m[2] + "0")
	if !ok {
		return 0, bad
	}
	for _, u := range units {
		if u.name == m[3] {
			number.Mul(number, new(big.Rat).SetInt64(int64(u.bytes)))
		}
	}
	if !number.IsInt() {
		return 0, fmt.Errorf("%s is not a whole number of bytes; write fewer digits behind the point", text)
	}
	if n := number.Num(); n.IsInt64() && n.Int64() <= maxSize {
		return Size(n.Int64()), nil
	}
	return 0, fmt.Errorf("%s is more than %s; write less", text, Size(maxSize+1).Text())
}

// Duration is a span of time. A template that prints it prints it as 1m30s.
type Duration int64

// Go is it in Go's type.
func (d Duration) Go() time.Duration { return time.Duration(d) }

// String is the form of files: 1m30s.
func (d Duration) String() string { return d.Go().String() }

// Seconds is it in seconds, with what is behind the point.
func (d Duration) Seconds() float64 { return d.Go().Seconds() }

// Milliseconds is the number of whole milliseconds in it.
func (d Duration) Milliseconds() int64 { return d.Go().Milliseconds() }

// Minutes is the number of whole minutes in it.
func (d Duration) Minutes() int64 { return int64(d.Go() / time.Minute) }

// Hours is the number of whole hours in it.
func (d Duration) Hours() int64 { return int64(d.Go() / time.Hour) }

// MarshalText writes the form of files.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDuration reads a span such as 90s or 1h30m.
func ParseDuration(text string) (Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || strings.HasPrefix(text, "+") || len(text) > 40 {
		return 0, fmt.Errorf("%.40q is not a duration; write a number with ms, s, m or h, such as 90s or 1h30m", text)
	}
	return Duration(d), nil
}

// Secret names an entry of the node's bundle.
type Secret string

// MarshalJSON writes it as a file has it.
func (s Secret) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"secretRef": string(s)})
}

// MarshalYAML writes it as a file has it.
func (s Secret) MarshalYAML() (any, error) { return map[string]string{"secretRef": string(s)}, nil }
