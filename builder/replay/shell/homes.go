package shell

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
)

// homes is an environment that knows the homes of the image's users. The interpreter asks for the variable "HOME NAME"
// to expand ~NAME, and asks the machine that builds when it is not set. A name that the image does not have stays as it
// is written (POSIX, Tilde Expansion, leaves that open; dash and bash do so).
type homes struct {
	expand.Environ
	of func(name string) (User, bool)
}

// Get implements expand.Environ.
func (h homes) Get(name string) expand.Variable {
	user, ok := strings.CutPrefix(name, "HOME ")
	if !ok {
		return h.Environ.Get(name)
	}
	home := "~" + user
	if h.of != nil {
		if u, known := h.of(user); known {
			home = u.Home
		}
	}
	return expand.Variable{Set: true, Kind: expand.String, Str: home}
}
