package spec

import (
	"regexp"
	"strings"
	"sync"
)

// Forms of what a selector names a disk by. A WWN is 0x and hexadecimal digits (SCSI, ATA), or eui., uuid., nvme. and
// naa. forms of NVMe and sysfs. They are compiled when they are first asked for: most programs of a node never ask.
var (
	wwnForm  = form(`^(0x[0-9a-f]{16}([0-9a-f]{16})?|eui\.([0-9a-f]{16}|[0-9a-f]{32})|uuid\.[0-9a-f-]{36}|nvme\.[0-9a-f]{4}-[0-9a-f-]+|naa\.[0-9a-f]{16,32})$`)
	byIDForm = form(`^[A-Za-z0-9+][A-Za-z0-9+._:=@-]*$`)
	partForm = form(`-part[0-9]+$`)
)

func form(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// ValidWWN tells whether a selector can have a World Wide Name, in either case.
func ValidWWN(s string) bool { return wwnForm().MatchString(strings.ToLower(s)) }

// ValidByID tells whether a text can be a name under /dev/disk/by-id; it can be that of a partition.
func ValidByID(s string) bool { return byIDForm().MatchString(s) }

// WithoutPart cuts off what makes the name of a disk under /dev/disk/by-id that of a partition.
func WithoutPart(s string) string { return partForm().ReplaceAllString(s, "") }
