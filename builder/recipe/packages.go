package recipe

import (
	"fmt"
	"slices"
)

// KernelPackages maps a kernel flavour of image.yaml to its Debian package.
var kernelPackages = map[string]string{
	"generic": "linux-image-amd64",
	"cloud":   "linux-image-cloud-amd64",
}

// basePackages is what every image is made of, besides the Essential packages and the kernel. Recommends are not taken.
var basePackages = []string{
	"ca-certificates",         // TLS to anything outside the cluster
	"e2fsprogs",               // the state partition is ext4
	"iproute2",                // for people who look at a machine, and for CNI plugins
	"kmod",                    // modprobe for udev and services
	"libtss2-esys-3.0.2-0t64", // systemd-creds loads it, and the next three, where the machine has a TPM
	"libtss2-mu-4.0.1-0t64",   //
	"libtss2-rc0t64",          //
	"libtss2-tcti-device0t64", //
	"login",                   // the console behind spore.console
	"mount",                   // mount(8) calls mount.spore for /var
	"netbase",                 // /etc/services and /etc/protocols
	"nftables",                // packet filter
	"systemd",                 //
	"systemd-boot-efi",        // systemd-boot and the EFI stub; both are taken out of the root again
	"systemd-repart",          // makes the state partition
	"systemd-sysv",            // /sbin/init
	"systemd-timesyncd",       // clock
	"udev",                    //
	"util-linux",              // fsck, blkid, agetty, nsenter
}

// replacements are packages that take the place of a base package, with which they conflict, when image.yaml names
// them.
var replacements = map[string][]string{
	"systemd-timesyncd": {"chrony", "ntpsec", "openntpd"}, // one program sets the clock
}

// WithoutReplaced leaves out the base packages that one of the named packages takes the place of.
func WithoutReplaced(list, named []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(name string) bool {
		return slices.ContainsFunc(replacements[name], func(other string) bool { return slices.Contains(named, other) })
	})
}

// companions are packages that Debian only recommends, and without which a package does not do what it is for.
var companions = map[string][]string{
	"podman": {"dbus"}, // crun asks systemd over the bus for the scope of a container
}

// Companions are the packages that come with the named ones, besides their dependencies.
func Companions(named []string) []string {
	var out []string
	for _, name := range named {
		out = append(out, companions[name]...)
	}
	return out
}

// BasePackages lists the packages of every image for a kernel flavour, "generic" or "cloud". Essential packages come
// with the resolver.
func BasePackages(flavour string) ([]string, error) {
	kernel, ok := kernelPackages[flavour]
	if !ok {
		return nil, fmt.Errorf("unknown kernel flavour %q; use generic or cloud", flavour)
	}
	return append([]string{kernel}, basePackages...), nil
}
