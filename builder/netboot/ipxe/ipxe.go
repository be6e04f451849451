// Package ipxe writes the scripts that iPXE boots machines by (https://ipxe.org/scripting): one that any web server can hand
// out, and those of `spore serve`, which asks who a machine is and shows the ones that nobody knows what to do.
//
// They use nothing that iPXE of 2019 does not have, which is what network cards and QEMU bring.
package ipxe

import (
	"fmt"
	"strings"
)

// Names of the files that scripts load, next to themselves.
const (
	Kernel = "vmlinuz"
	Initrd = "initrd"
	UKI    = "spore.efi"
	// Start is the first script of the server, Asking the one that it asks for with what it knows of the machine.
	Start  = "start.ipxe"
	Asking = "node.ipxe"
)

const (
	// cards is how many network cards a machine tells of.
	cards = 8
	// again is how long a machine that nobody knows waits until it asks again, in seconds.
	again = 15
)

// Image is what scripts boot.
type Image struct {
	// Cluster is the cluster's name.
	Cluster string
	// Cmdline is the kernel's command line, as the UKI has it.
	Cmdline string
}

// check makes sure that iPXE takes the command line as it stands.
func (i Image) check() error {
	if strings.Contains(i.Cmdline, "${") {
		return fmt.Errorf("iPXE would replace ${…} in the kernel's command line %q; change kernelArguments in image.yaml", i.Cmdline)
	}
	for _, word := range strings.Fields(i.Cmdline) {
		if word == "||" || word == "&&" {
			return fmt.Errorf("iPXE would end the kernel's command line %q at %s; change kernelArguments in image.yaml", i.Cmdline, word)
		}
	}
	if strings.ContainsAny(i.Cmdline, "\n\r\\") {
		return fmt.Errorf("the kernel's command line %q has a character that iPXE does not take", i.Cmdline)
	}
	return nil
}

// Plain is the script for everybody's web server and iPXE. It names nothing but its neighbours, so that it works at any URL.
func Plain(i Image) ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	var b script
	b.line("#!ipxe")
	b.line("# Boots the image of cluster %s. The files beside this one belong together: each build has its own.", i.Cluster)
	b.boot(i, "${cwuri}", nil)
	b.line(":failed")
	b.line("echo Spore: the image could not be loaded or started")
	b.line("exit 1")
	return b.bytes(), nil
}

// First is the script that iPXE begins with: it tells the server what it knows of the machine.
func First() []byte {
	var b script
	b.line("#!ipxe")
	b.line(":ask")
	var query []string
	for i := range cards {
		query = append(query, fmt.Sprintf("mac=${net%d/mac:hexhyp}", i))
	}
	query = append(query, "serial=${serial:uristring}", "uuid=${uuid}", "ip=${ip}", "hostname=${hostname:uristring}", "platform=${platform}")
	b.line("chain --autofree %s?%s || goto failed", Asking, strings.Join(query, "&"))
	// A script that comes to its end says what next: the machine's disk, or the same question again. UEFI goes on to its next boot
	// option only after one that failed; after one that succeeded it stops in its menu (UEFI 2.10, section 3.1.1).
	b.line("iseq ${spore-next} disk && exit 1 ||")
	b.line("goto ask")
	b.line(":failed")
	b.line("echo Spore: the boot server does not answer, or what it sent did not start. Once more in 5 seconds.")
	b.line("sleep 5")
	b.line("goto ask")
	return b.bytes()
}

// Node is what a script boots a node with.
type Node struct {
	Name string
	// Why says what it was known by.
	Why string
	// Base is the URL of the folder with the files.
	Base string
	// Arguments are further words of the kernel command line.
	Arguments []string
}

// Known boots a node.
func Known(i Image, n Node) ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	var b script
	b.line("#!ipxe")
	b.line("echo")
	b.line("echo Spore: this machine is %s of cluster %s, by its %s", text(n.Name), text(i.Cluster), text(n.Why))
	b.boot(i, n.Base, n.Arguments)
	b.line(":failed")
	b.line("echo Spore: the image could not be loaded or started")
	b.line("exit 1")
	return b.bytes(), nil
}

// Disk sends a machine on to the next device that its firmware has.
func Disk(node string) []byte {
	var b script
	b.line("#!ipxe")
	b.line("echo Spore: %s is installed and starts from its disk", text(node))
	b.line("set spore-next disk")
	b.line("exit 0")
	return b.bytes()
}

// Machine is what a machine said of itself.
type Machine struct {
	MACs         []string
	Serial, UUID string
	// Address and Hostname are what DHCP gave it.
	Address, Hostname string
}

// Unknown is the screen of a machine that does not match any node. problem says why not, where it could be more than one; it is empty
// otherwise. The machine asks again by itself; a key boots it as no node, which starts no role.
func Unknown(i Image, m Machine, problem, base string) ([]byte, error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	var b script
	b.line("#!ipxe")
	// echo makes one blank of several, so that an indent has to be a setting.
	b.line("set in:hex 20:20:20:20")
	b.line("set in ${in:string}")
	b.line("set two:hex 20:20")
	b.line("set two ${two:string}")
	b.line("echo")
	b.line("echo ======================================================================")
	b.line("echo ${in}UNKNOWN MACHINE")
	b.line("echo")
	b.line("echo ${in}It does not match any node of cluster %s, or its entry does not fit.", text(i.Cluster))
	if problem != "" {
		b.line("echo ${in}%s", text(problem))
	}
	b.line("echo")
	for _, mac := range m.MACs {
		b.line("echo ${in}MAC %s", text(mac))
	}
	for _, row := range []struct{ name, value string }{{"serial", m.Serial}, {"UUID", m.UUID}, {"address", m.Address}, {"host name", m.Hostname}} {
		if row.value != "" {
			b.line("echo ${in}%s %s", row.name, text(row.value))
		}
	}
	b.line("echo")
	b.line("echo ${in}Add it to nodes in cluster.yaml, for example:")
	b.line("echo")
	b.line("echo ${in}- name: NAME")
	if len(m.MACs) > 0 {
		b.line("echo ${in}${two}macs: [\"%s\"]", text(m.MACs[0]))
	} else if m.Serial != "" {
		b.line("echo ${in}${two}serial: \"%s\"", text(m.Serial))
	}
	b.line("echo ${in}${two}roles: [ROLE]")
	b.line("echo")
	b.line("echo ${in}and build again. The server lists this machine as well.")
	b.line("echo ======================================================================")
	b.line("prompt --key b --timeout %d Asking again in %d seconds. Press b to boot it as no node. && goto boot ||", again*1000, again)
	b.line("exit 0")
	b.line(":boot")
	b.boot(i, base, nil)
	b.line(":failed")
	b.line("echo Spore: the image could not be loaded or started")
	b.line("exit 1")
	return b.bytes(), nil
}

// script is a script that is being written.
type script struct{ strings.Builder }

func (b *script) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func (b *script) bytes() []byte { return []byte(b.String()) }

// boot loads the image and starts it; it goes on at the label failed.
func (b *script) boot(i Image, base string, more []string) {
	words := strings.Join(append([]string{i.Cmdline, "spore.url=" + base}, more...), " ")
	b.line("iseq ${platform} efi && goto efi ||")
	b.line("kernel %s initrd=%s %s || goto failed", Kernel, Initrd, words)
	b.line("initrd %s || goto failed", Initrd)
	b.line("boot || goto failed")
	b.line(":efi")
	// iPXE hands a program of UEFI its own name and the arguments, and systemd's stub takes both for the whole command line of
	// the kernel, in place of its own. So all of it is given, and the name is a word that the kernel knows.
	b.line("kernel --name ro %s %s || goto failed", UKI, words)
	b.line("boot || goto failed")
}

// maxText is the longest text of a machine that is shown.
const maxText = 100

// text makes a text harmless in a script: what machines say of themselves may hold anything.
func text(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(" ._:/,()=+@[]*#-", r) {
			return r
		}
		return '?'
	}, s)
}
