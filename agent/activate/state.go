package activate

import (
	"context"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
)

// Services is what is asked about services; a *dbus.Conn is one.
type Services interface {
	GetUnitTypePropertyContext(ctx context.Context, unit, unitType, name string) (*dbus.Property, error)
}

// Done tells whether an inactive unit is a service that did its work and ended well: one of Type=oneshot that has run
// and has the result success (org.freedesktop.systemd1(5)). systemd has that result for services that never ran, too.
// With RemainAfterExit=yes such a service would be active.
//
// It asks for one property at a time, and most services have another type. All of a service are three hundred, some of
// which systemd reads from files of its control group.
func Done(ctx context.Context, s Services, unit string) bool {
	if !strings.HasSuffix(unit, ".service") {
		return false
	}
	property := func(name string) any {
		p, err := s.GetUnitTypePropertyContext(ctx, unit, "Service", name)
		if err != nil {
			return nil
		}
		return p.Value.Value()
	}
	if property("Type") != "oneshot" || property("Result") != "success" {
		return false
	}
	ended, _ := property("ExecMainExitTimestamp").(uint64)
	return ended > 0
}

// HasJob tells whether a job of a unit is queued or runs (org.freedesktop.systemd1(5), Job): its number, and an object
// path.
func HasJob(properties map[string]any) bool {
	job, _ := properties["Job"].([]any)
	if len(job) == 0 {
		return false
	}
	number, _ := job[0].(uint32)
	return number != 0
}
