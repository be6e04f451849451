package programs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramsStayOutOfWhatDecidesHowAMachineStarts(t *testing.T) {
	for p, want := range map[string]string{
		"/usr/lib/systemd/system/x.service":                          "files there decide how a machine starts",
		"/usr/lib/systemd":                                           "files there decide how a machine starts",
		"/usr/local/lib/systemd/system/x.service":                    "files there decide how a machine starts",
		"/usr/local/lib/systemd/system-generators/x":                 "files there decide how a machine starts",
		"/usr/local/lib/tmpfiles.d/x.conf":                           "files there decide how a machine starts",
		"/usr/local/lib/sysctl.d/x.conf":                             "files there decide how a machine starts",
		"/usr/local/lib/udev/rules.d/x.rules":                        "files there decide how a machine starts",
		"/usr/local/share/dbus-1/services/x.service":                 "files there decide how a machine starts",
		"/usr/lib/repart.d/x.conf":                                   "files there decide how a machine starts",
		"/usr/lib/credstore/x":                                       "files there decide how a machine starts",
		"/usr/lib/credstore.encrypted/x":                             "files there decide how a machine starts",
		"/usr/lib/x86_64-linux-gnu/security/pam_x.so":                "files there decide how a machine starts",
		"/usr/lib/x86_64-linux-gnu/glibc-hwcaps/x86-64-v3/libc.so.6": "libraries there take the place of those of the image",
		"/usr/lib/glibc-hwcaps/x86-64-v2/libc.so.6":                  "libraries there take the place of those of the image",
		"/usr/bin/spore-agent":                                       "the machine is run by it",
		"/usr/sbin/mkfs.spore":                                       "the machine makes encrypted state by it",
		"/usr/sbin/mount.spore":                                      "the machine mounts its state by it",
		"/usr/lib/dpkg/x":                                            "scanners find vulnerabilities by it",
		"/usr/lib/os-release":                                        "the build writes it, and tools tell images apart by it",
		"/usr/bin/x":                                                 "",
		"/usr/local/bin/x":                                           "",
		"/usr/local/lib/x/x.so":                                      "",
		"/usr/lib/systemd-x/x":                                       "",
		"/usr/lib/x86_64-linux-gnu/libx.so.1":                        "",
		"/opt/x/lib/systemd/x":                                       "",
	} {
		if want == "" {
			require.Empty(t, ClosedPath(p))
			continue
		}
		require.Contains(t, ClosedPath(p), p+" cannot be a program's")
		require.Contains(t, ClosedPath(p), want)
	}
}
