package debian

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"spore/builder/replay/command"
	"spore/builder/replay/shell"
)

// undone are commands that maintainer scripts call and that do nothing at build.
var undone = map[string]row{
	// Services start on the node alone.
	"invoke-rc.d":          {"services start on the node", 0, true},
	"service":              {"services start on the node", 0, true},
	"deb-systemd-invoke":   {"services start on the node", 0, true},
	"start-stop-daemon":    {"services start on the node", 0, true},
	"update-rc.d":          {"systemd runs the services", 0, true},
	"rc-service":           {"systemd runs the services", 0, true},
	"policy-rc.d":          {"services start on the node", 101, true},
	"initctl":              {"systemd runs the services", 1, true},
	"telinit":              {"systemd runs the services", 0, true},
	"runlevel":             {"there is none at build", 1, true},
	"pidof":                {"nothing runs at build", 1, true},
	"pgrep":                {"nothing runs at build", 1, true},
	"pkill":                {"nothing runs at build", 1, true},
	"killall":              {"nothing runs at build", 1, true},
	"ps":                   {"nothing runs at build", 0, true},
	"fuser":                {"nothing runs at build", 1, true},
	"lsof":                 {"nothing runs at build", 1, true},
	"dbus-send":            {"there is no bus at build", 1, true},
	"busctl":               {"there is no bus at build", 1, true},
	"gdbus":                {"there is no bus at build", 1, true},
	"ischroot":             {"a build is like a chroot", 0, true},
	"running-in-container": {"a build is like a chroot", 0, true},
	"systemd-detect-virt":  {"nothing is known of the node", 1, true},
	"systemd-notify":       {"nothing runs at build", 1, true},
	"mountpoint":           {"scripts ask whether /proc is there", 0, true},
	"mount":                {"nothing is mounted at build", 1, true},
	"umount":               {"nothing is mounted at build", 1, true},
	"findmnt":              {"nothing is mounted at build", 1, true},
	"lsmod":                {"the kernel of the build is not that of the node", 0, true},
	"modprobe":             {"the kernel of the build is not that of the node", 1, true},
	"modinfo":              {"the kernel of the build is not that of the node", 1, true},
	"sysctl":               {"settings of the kernel are made on the node, from /etc/sysctl.d and /usr/lib/sysctl.d", 0, true},
	"dbus-uuidgen":         {"stage1 writes the machine-id", 0, true},
	"udevadm":              {"udev runs on the node", 0, true},
	"ip":                   {"the network of the build is not that of the node", 1, true},
	"ifconfig":             {"the network of the build is not that of the node", 1, true},
	"ifquery":              {"the network of the build is not that of the node", 1, true},
	"ss":                   {"the network of the build is not that of the node", 1, true},
	"iptables":             {"filters are made on the node", 1, true},
	"nft":                  {"filters are made on the node", 1, true},
	"apparmor_parser":      {"no AppArmor policy is loaded", 0, true},
	"aa-status":            {"no AppArmor policy is loaded", 1, true},
	"aa-enabled":           {"no AppArmor policy is loaded", 1, true},
	"aa-exec":              {"no AppArmor policy is loaded", 1, true},
	"restorecon":           {"no SELinux policy", 0, true},
	"selinuxenabled":       {"no SELinux policy", 1, true},
	"semanage":             {"no SELinux policy", 1, true},
	"stty":                 {"there is no terminal at build", 1, true},
	"exim4":                {"the daemon reads its configuration on the node", 0, true},
	"proftpd":              {"the daemon reads its configuration on the node", 0, true},
	"pg_updatedicts":       {"it makes dictionaries of those of hunspell; without one it makes none", 0, false},
	"pg_conftool":          {"it is asked whether a first database is made, and the configuration of Debian says so", 0, true},
	"pam_getenv":           {"no locale is set at build", 1, true},
	"auditctl":             {"the kernel of the build is not that of the node", 0, true},
	"cme":                  {"a program in Perl makes /etc/LCDd.conf; the overlay gives it", 0, false},
	"setupcon":             {"a program in Perl compiles keymaps; consoles have that of the kernel", 0, false},
	"pg_lsclusters":        {"there is no database at build", 0, true},
	"vgcfgbackup":          {"there is no volume group at build", 0, true},
	"lpstat":               {"the printing daemon runs on the node", 1, true},
	"chronyd":              {"it is asked for the user that its configuration names, and that of Debian names none", 0, true},
	"named-checkconf":      {"the daemon reads its configuration on the node", 0, true},
	"munin-node-configure": {"it looks for what runs on the machine; a plugin is chosen by a link in the overlay", 0, false},
	"my_print_defaults":    {"it is asked for options that the configuration of Debian does not set", 0, true},
	"update-inetd":         {"no inetd; sockets of systemd do this", 0, false},

	// Steps of the recipe do their work for all packages at once.
	"ldconfig":                 {"no ld.so.cache: libraries are in the default directories", 0, true},
	"update-ca-certificates":   {"step ca-bundle", 0, true},
	"pam-auth-update":          {"step pam", 0, true},
	"depmod":                   {"step module-indexes", 0, true},
	"update-initramfs":         {"the initramfs is ours", 0, true},
	"update-grub":              {"systemd-boot starts the kernel", 0, true},
	"grub-install":             {"systemd-boot starts the kernel", 0, true},
	"kernel-install":           {"the kernel is in the UKI", 0, true},
	"linux-update-symlinks":    {"the kernel is in the UKI", 0, true},
	"linux-run-hooks":          {"nothing hooks into kernels of an image", 0, true},
	"linux-version":            {"the kernel is in the UKI", 0, true},
	"dracut":                   {"the initramfs is ours", 0, true},
	"systemd-machine-id-setup": {"stage1 writes the machine-id", 0, true},
	"systemd-hwdb":             {"no hwdb", 0, true},
	"journalctl":               {"no message catalogue", 0, true},
	"bootctl":                  {"the boot files are in the ESP", 0, true},
	"systemd-creds":            {"credentials are made on the node", 1, true},
	"deb-gview":                {"nobody looks", 0, true},
	"needrestart":              {"nothing runs at build", 0, true},
	"reportbug":                {"nobody looks", 0, true},

	// Caches and indexes that make something faster, or that only desktops and readers of documentation have.
	"mandb":                       {"manual pages are not in an image", 0, true},
	"install-info":                {"info pages are not in an image", 0, true},
	"update-info-dir":             {"info pages are not in an image", 0, true},
	"install-docs":                {"documentation is not in an image", 0, true},
	"helpztags":                   {"documentation is not in an image", 0, true},
	"update-menus":                {"no display", 0, true},
	"update-desktop-database":     {"no display", 0, true},
	"update-mime-database":        {"no display", 0, true},
	"update-mime":                 {"no display", 0, true},
	"update-icon-caches":          {"no display", 0, true},
	"gtk-update-icon-cache":       {"no display", 0, true},
	"fc-cache":                    {"fonts are found without a cache, when they are first used", 0, true},
	"update-fonts-alias":          {"no display", 0, true},
	"update-fonts-dir":            {"no display", 0, true},
	"update-fonts-scale":          {"no display", 0, true},
	"update-xmlcatalog":           {"no tool of an image reads the catalogue of DTDs", 0, false},
	"update-catalog":              {"no tool of an image reads the catalogue of DTDs", 0, false},
	"py3compile":                  {"Python compiles modules when it loads them", 0, true},
	"py3clean":                    {"Python compiles modules when it loads them", 0, true},
	"pycompile":                   {"Python compiles modules when it loads them", 0, true},
	"pyclean":                     {"Python compiles modules when it loads them", 0, true},
	"update-python-modules":       {"Python compiles modules when it loads them", 0, true},
	"update-binfmts":              {"no foreign binaries", 0, true},
	"update-dlocatedb":            {"documentation is not in an image", 0, true},
	"update-mlocatedb":            {"nobody searches for files", 0, true},
	"update-smart-drivedb":        {"the network is not used at build", 0, false},
	"update-pciids":               {"the network is not used at build", 0, false},
	"update-usbids":               {"the network is not used at build", 0, false},
	"update-command-not-found":    {"nobody types", 0, true},
	"register-python-interpreter": {"nobody asks", 0, true},
	"gio-querymodules":            {"modules are found without a cache", 0, true},
	"glib-compile-schemas":        {"settings of a desktop", 0, false},
	"dconf":                       {"settings of a desktop", 0, false},
	"gdk-pixbuf-query-loaders":    {"no display", 0, true},
	"gsettings":                   {"settings of a desktop", 0, false},
	"appstreamcli":                {"no display", 0, true},
	"xdg-mime":                    {"no display", 0, true},
	"update-gconf-defaults":       {"settings of a desktop", 0, true},
	"emacs-package-install":       {"nobody edits", 0, true},
	"add-to-known-hosts":          {"hosts are known on the node", 0, true},
	"savelog":                     {"there are no logs yet", 0, true},
	"update-notifier":             {"nobody looks", 0, true},

	// Helpers that scripts call by their whole path.
	"/usr/lib/x86_64-linux-gnu/glib-2.0/glib-compile-schemas": {"settings of a desktop", 0, true},
	"/usr/lib/x86_64-linux-gnu/glib-2.0/gio-querymodules":     {"modules are found without a cache", 0, true},
	"/usr/lib/runit-helper/runit-helper":                      {"systemd runs the services", 0, true},
	"/lib/runit-helper/runit-helper":                          {"systemd runs the services", 0, true},
	"/usr/share/postgresql-common/pg_checksystem":             {"it looks at the kernel that builds", 0, true},
	"/usr/libexec/x86_64-linux-gnu/isa-support/test-SSE3":     {"every processor with x86-64 since 2005 has SSE3", 0, true},
	"/usr/libexec/x86_64-linux-gnu/isa-support/test-SSE4.2":   {"every processor with x86-64 since 2011 has SSE4.2", 0, false},
}

// secrets are commands that make keys, certificates, ids or databases with passwords. What they make may be in no
// image: each node has its own.
var secrets = map[string]string{
	"openssl":               "it makes keys or certificates",
	"ssh-keygen":            "it makes keys",
	"make-ssl-cert":         "it makes a key and a certificate",
	"certtool":              "it makes keys or certificates",
	"gpg":                   "it makes or imports keys",
	"uuidgen":               "it makes an id",
	"mysqld":                "it makes a database",
	"mariadbd":              "it makes a database",
	"mariadb-install-db":    "it makes a database",
	"mysql_install_db":      "it makes a database",
	"pg_createcluster":      "it makes a database",
	"initdb":                "it makes a database",
	"rndc-confgen":          "it makes a key",
	"unbound-control-setup": "it makes keys",
	"unbound-anchor":        "it fetches a key of the DNS root",
	"pwgen":                 "it makes a password",
	"makepasswd":            "it makes a password",
	"mcookie":               "it makes a key",
	"wg":                    "it makes keys",
	"iscsi-iname":           "it makes an id",
	"dropbearkey":           "it makes keys",
	"nsd-control-setup":     "it makes keys",
	"slappasswd":            "it makes the verifier of a password",
}

// secret is a command that makes a secret. It does nothing where a unit does the same on the node, and ends the replay
// elsewhere.
func (t *Tools) secret(name string) command.Func {
	return func(_ context.Context, c *command.Call) (int, error) {
		if o := t.onNode[t.current]; slices.Contains(o.Commands, name) {
			return 0, t.deferTo(o, c)
		}
		why, ok := secrets[name]
		if !ok {
			return 0, &shell.Unreplayed{What: name, Why: "it is a program, and no program of an image runs at build"}
		}
		return 0, &shell.Unreplayed{What: name, Why: why +
			", and nothing secret or different each time may be in an image: run it on the node, once, by a unit"}
	}
}

// deferTo leaves a command to the unit, and makes what the script goes on with.
func (t *Tools) deferTo(o OnNode, c *command.Call) error {
	t.deferred[t.current] = true
	for _, p := range o.Makes {
		if t.files.Exists(p) {
			continue
		}
		if err := t.files.MkdirAll(path.Dir(p), 0o755); err != nil {
			return err
		}
		if err := t.files.WriteFile(p, nil, 0o600); err != nil {
			return err
		}
	}
	_, err := io.WriteString(c.Stdout, o.Says)
	return err
}

// python is an interpreter of Python, which scripts call to compile modules. Python does so when it loads them.
func python(_ context.Context, c *command.Call) (int, error) {
	for _, a := range c.Args {
		if a == "py_compile" || a == "compileall" || strings.HasSuffix(a, "/py_compile.py") || strings.HasSuffix(a, "/compileall.py") {
			return 0, nil
		}
	}
	return 0, &shell.Unreplayed{What: c.Name, Why: "it is a program, and no program of an image runs at build"}
}
