// Package role is a role that a user writes: the file roles/NAME.yaml of a configuration, what it means, and what is
// wrong with it. Its settings have types of package setting, its files are rendered by package template, and package
// unit writes what systemd is told. It makes the row that services of ours have, so that nothing else knows the one
// from the other.
package role

import (
	"maps"
	"slices"
	"time"

	"spore/cluster/role/setting"
)

// Definition is the file roles/NAME.yaml: a service of the user's own. The name of the file is the name of the role, of
// the service in cluster.yaml, of its settings' file in services/ and of its target.
type Definition struct {
	// Name is that of the file.
	Name string `yaml:"-" json:"name"`
	// Description says in one line what the role is.
	Description string `yaml:"description" json:"description"`
	// Packages are Debian packages that the image needs for it.
	Packages []string `yaml:"packages,omitempty" json:"packages,omitempty"`
	// Programs are names of programs/ that the image needs for it.
	Programs []string `yaml:"programs,omitempty" json:"programs,omitempty"`
	// Units are what starts with the role: units of units/ or of a package, such as valkey-server.service or
	// backup.timer. The service that a timer, socket or path starts is not named.
	Units []string `yaml:"units" json:"units"`
	// User is the account that the units run as; without it, they run as they say themselves.
	User *User `yaml:"user,omitempty" json:"user,omitempty"`
	// Directories are what the role keeps on the node.
	Directories []Directory `yaml:"directories,omitempty" json:"directories,omitempty"`
	// Disks are whole disks of a node for what the role keeps.
	Disks *Disks `yaml:"disks,omitempty" json:"disks,omitempty"`
	// Memory is how much a machine needs for the role, such as 256MiB.
	Memory string `yaml:"memory,omitempty" json:"memory,omitempty"`
	// Architectures are those of the machines that it runs on, in Debian's words; any when empty.
	Architectures []string `yaml:"architectures,omitempty" json:"architectures,omitempty"`
	// Ports are all at which its units listen.
	Ports []Port `yaml:"ports,omitempty" json:"ports,omitempty"`
	// Settings are what services/NAME.yaml may say, each with its type.
	Settings map[string]setting.Type `yaml:"settings,omitempty" json:"settings,omitempty"`
	// Files are rendered from templates before each start of a unit.
	Files []File `yaml:"files,omitempty" json:"files,omitempty"`
	// Secrets are entries of the bundle of each node with the role, by their names.
	Secrets map[string]Secret `yaml:"secrets,omitempty" json:"secrets,omitempty"`
	// Live says which settings a running node takes at once. Others wait for its next start.
	Live []Live `yaml:"live,omitempty" json:"live,omitempty"`
	// Health is how a node finds out whether the role does its work; without it, its units have to run.
	Health *Health `yaml:"health,omitempty" json:"health,omitempty"`
	// Tests are what a node with the role runs for `spore boot --test`, in this order.
	Tests []Test `yaml:"tests,omitempty" json:"tests,omitempty"`
	// Logs are the units whose journal belongs to the role; all of its units when empty.
	Logs []string `yaml:"logs,omitempty" json:"logs,omitempty"`
	// Needs is what the units need of what is otherwise taken from them.
	Needs *Needs `yaml:"needs,omitempty" json:"needs,omitempty"`

	// Templates are the texts of roles/NAME/, by their names.
	Templates map[string]string `yaml:"-" json:"templates,omitempty"`
}

// User is an account.
type User struct {
	// Name is the user, and its group of the same name.
	Name string `yaml:"name" json:"name"`
	// Groups are further groups that it is in.
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// Directory is made before each start of a unit of the role, and kept.
type Directory struct {
	// Path is below /var or /run.
	Path string `yaml:"path" json:"path"`
	// Owner is its user; the role's when empty.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Group is its group; that of the owner's name when empty.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// Mode is its mode in octal digits, in quotes; "0750" when empty.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
	// Quota is what it and all below it may fill, such as 2GiB; for one below /var.
	Quota string `yaml:"quota,omitempty" json:"quota,omitempty"`
}

// Disks are disks that nodes/NODE.yaml gives to the role, by selector; each node with the role has one or more.
type Disks struct {
	// Use is the role's name, which the node's file writes as the use of the disk.
	Use string `yaml:"use" json:"use"`
	// At is a directory in /var/lib, or in a directory of the role there. The file systems of the disks are at AT/1, AT/2
	// and so on, in the order of the node's file. In each, the directory "data" belongs to the role's user.
	At string `yaml:"at" json:"at"`
}

// DiskData is the directory of the role's user on each of its disks.
const DiskData = "data"

// Port is where the role waits for others.
type Port struct {
	// Port is the number.
	Port int `yaml:"port" json:"port"`
	// To is the last number of a range, of which the role takes what is free.
	To int `yaml:"to,omitempty" json:"to,omitempty"`
	// Protocol is tcp (default) or udp.
	Protocol string `yaml:"protocol,omitempty" json:"protocol,omitempty"`
	// Setting is the setting that gives the number; Port is then its default.
	Setting string `yaml:"setting,omitempty" json:"setting,omitempty"`
	// At is at which addresses: everywhere (default), node (those by which others reach the node) or loopback.
	At string `yaml:"at,omitempty" json:"at,omitempty"`
	// For says what is to be had there.
	For string `yaml:"for" json:"for"`
}

// Words of Port.
const (
	TCP, UDP                   = "tcp", "udp"
	Everywhere, Node, Loopback = "everywhere", "node", "loopback"
)

// File is rendered from a template.
type File struct {
	// Path is where it lies: below /run or in a directory of programs below /var, such as /var/lib; in /etc, in a
	// folder of the program, such as /etc/valkey/valkey.conf, or /etc/default/NAME for the role's NAME.service.
	Path string `yaml:"path" json:"path"`
	// Template is its template in roles/NAME/, which ends in .tmpl.
	Template string `yaml:"template" json:"template"`
	// Owner is its user; the role's when empty.
	Owner string `yaml:"owner,omitempty" json:"owner,omitempty"`
	// Group is its group; that of the owner's name when empty.
	Group string `yaml:"group,omitempty" json:"group,omitempty"`
	// Mode is its mode in octal digits, in quotes; "0640" when empty.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
	// Secrets are those that its template may read: names of the role's secrets, with -certificate or -key behind a
	// certificate, and settings.NAME for the secrets that a setting names.
	Secrets []string `yaml:"secrets,omitempty" json:"secrets,omitempty"`
}

// Secret is one entry of the bundle, or two of a certificate.
type Secret struct {
	// Length is the number of characters; 24 when 0.
	Length int `yaml:"length,omitempty" json:"length,omitempty"`
	// Alphabet is what it is made of: alphanumeric (default), lowercase (letters and digits), digits or hex.
	Alphabet string `yaml:"alphabet,omitempty" json:"alphabet,omitempty"`
	// Given lets nobody make it up: the operator brings it.
	Given bool `yaml:"given,omitempty" json:"given,omitempty"`
	// Certificate makes it the certificate and key NAME-certificate and NAME-key of each node.
	Certificate *Certificate `yaml:"certificate,omitempty" json:"certificate,omitempty"`
}

// Certificate is a certificate that an authority of the role's own signs.
type Certificate struct {
	// Names are further DNS names and addresses that it is for, besides those of the node. {node}, {hostname}, {fqdn},
	// {domain} and {ips} are filled in.
	Names []string `yaml:"names,omitempty" json:"names,omitempty"`
	// Authority is the name of the authority; the role's when empty.
	Authority string `yaml:"authority,omitempty" json:"authority,omitempty"`
	// Usage is what it may be used for: server (default) and client.
	Usage []string `yaml:"usage,omitempty" json:"usage,omitempty"`
	// Signal is what tells the units of the role to read a new certificate: HUP, USR1 or USR2. Without it, they are
	// restarted.
	Signal string `yaml:"signal,omitempty" json:"signal,omitempty"`
}

// Words of Certificate.
const (
	ForServer = "server"
	ForClient = "client"
)

// Live are settings that a running node takes at once.
type Live struct {
	// Settings are their names.
	Settings []string `yaml:"settings" json:"settings"`
	// Restart are the units that are started again.
	Restart []string `yaml:"restart" json:"restart"`
}

// Health is a question with one of its keys.
type Health struct {
	// Port is one of the role's ports of TCP: somebody listens there.
	Port int `yaml:"port,omitempty" json:"port,omitempty"`
	// Command ends with status 0 within 10 seconds. It runs twice a minute as the user of the role, with neither its
	// secrets nor its directories to write.
	Command []string `yaml:"command,omitempty" json:"command,omitempty"`
	// HTTP is asked for and answers.
	HTTP *HTTP `yaml:"http,omitempty" json:"http,omitempty"`
	// Journal is a regular expression (RE2) that a line of the role's journal matches since its units started.
	Journal string `yaml:"journal,omitempty" json:"journal,omitempty"`
}

// HTTP is a request.
type HTTP struct {
	// Port is one of the role's ports of TCP.
	Port int `yaml:"port" json:"port"`
	// Path is what is asked for, such as /healthz.
	Path string `yaml:"path" json:"path"`
	// Status is the status of the answer; 200 when 0.
	Status int `yaml:"status,omitempty" json:"status,omitempty"`
}

// Test is a command that shows that the role works.
type Test struct {
	// Command ends with status 0 within 60 seconds. It runs as the user of the role, which reads the role's files; it
	// has neither the role's secrets nor its directories to write.
	Command []string `yaml:"command" json:"command"`
	// Expect is a text that the command prints, among the first 65,536 bytes.
	Expect string `yaml:"expect,omitempty" json:"expect,omitempty"`
}

// Bounds of tests: how many a role has, how long one may take, and how long all of a role may.
const (
	MaxTests   = 20
	TestBound  = time.Minute
	TestsBound = 10 * time.Minute
)

// Needs is what the hardening of the units leaves them.
type Needs struct {
	// Root lets them run as root with its capabilities, and become another user.
	Root bool `yaml:"root,omitempty" json:"root,omitempty"`
	// Capabilities are what they may do besides, as capabilities(7) calls it, such as CAP_NET_BIND_SERVICE.
	Capabilities []string `yaml:"capabilities,omitempty" json:"capabilities,omitempty"`
	// Network lets a role without ports talk to others.
	Network bool `yaml:"network,omitempty" json:"network,omitempty"`
	// Sockets are further families of sockets, such as AF_CAN.
	Sockets []string `yaml:"sockets,omitempty" json:"sockets,omitempty"`
	// Devices are devices that they read and write, such as /dev/ttyS0 or char-ttyUSB.
	Devices []string `yaml:"devices,omitempty" json:"devices,omitempty"`
	// Write are paths that they write besides the role's directories and files.
	Write []string `yaml:"write,omitempty" json:"write,omitempty"`
	// Compiles lets them make memory executable, as programs do that compile while they run (Java, Node.js).
	Compiles bool `yaml:"compiles,omitempty" json:"compiles,omitempty"`
	// Namespaces lets them make namespaces, as programs do that start containers.
	Namespaces bool `yaml:"namespaces,omitempty" json:"namespaces,omitempty"`
	// Realtime lets them ask for a real-time scheduler.
	Realtime bool `yaml:"realtime,omitempty" json:"realtime,omitempty"`
	// SystemCalls are further system calls or groups of them, such as @mount.
	SystemCalls []string `yaml:"systemCalls,omitempty" json:"systemCalls,omitempty"`
}

// Alphabets are the letters of secrets, by Secret.Alphabet.
var Alphabets = map[string]string{
	"alphanumeric": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
	"lowercase":    "abcdefghijklmnopqrstuvwxyz0123456789",
	"digits":       "0123456789",
	"hex":          "0123456789abcdef",
}

// Choices are the closed lists of values, by Go type and key.
func Choices() map[string][]string {
	return map[string][]string{
		"Type.type":                setting.Names,
		"Definition.architectures": architectures,
		"Port.protocol":            protocols,
		"Port.at":                  scopes,
		"Secret.alphabet":          slices.Sorted(maps.Keys(Alphabets)),
		"Certificate.usage":        usages,
		"Certificate.signal":       signals,
	}
}

var (
	architectures = []string{"amd64", "arm64"}
	protocols     = []string{TCP, UDP}
	scopes        = []string{Everywhere, Node, Loopback}
	usages        = []string{ForServer, ForClient}
	signals       = []string{"HUP", "USR1", "USR2"}
)
