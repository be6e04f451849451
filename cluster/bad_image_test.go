package cluster

// badImage holds mistakes of one kind: edits of the six-node cluster, and what is said about them.
var badImage = []badInput{
	{
		"another suite",
		[]edit{{"image.yaml", "suite: trixie", "suite: bookworm"}},
		[]string{
			`image.yaml:6:8: error: the suite "bookworm" is unknown; write trixie`,
		},
	},
	{
		"a misspelt component",
		[]edit{{"image.yaml", "components: [main]", "components: [main, non-free-firmwre]"}},
		[]string{
			`image.yaml:9:20: error: the component "non-free-firmwre" is unknown; did you mean "non-free-firmware"?`,
		},
	},
	{
		"components without main",
		[]edit{{"image.yaml", "components: [main]", "components: [non-free-firmware]"}},
		[]string{
			`image.yaml:9:13: error: the components lack main, on which everything else depends; add it`,
		},
	},
	{
		"a kernel that does not exist",
		[]edit{{"image.yaml", "kernel: generic", "kernel: realtime"}},
		[]string{
			`image.yaml:12:9: error: the kernel "realtime" is unknown; write generic or cloud`,
		},
	},
	{
		"a shell for everybody",
		[]edit{{"image.yaml", "shell: off", "shell: on"}},
		[]string{
			`image.yaml:43:8: error: the shell "on" is unknown; did you mean "off"?`,
		},
	},
	{
		"a shell that nobody could open",
		[]edit{{"image.yaml", "shell: off", "shell: granted"}},
		[]string{
			"image.yaml:43:8: error: no key could sign a grant of the shell; make one with `spore shell make-key FILE` and write what it prints under shellKeys",
		},
	},
	{
		"keys without a shell",
		[]edit{{"image.yaml", "shell: off", "shellKeys: [6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=]"}},
		[]string{
			`image.yaml:43:12: error: the image has no shell that these keys could open; write shell: granted, or remove shellKeys`,
		},
	},
	{
		"a key that is none, and one twice",
		[]edit{{"image.yaml", "shell: off", "shell: granted\nshellKeys: [x, 6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=, 6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=]"}},
		[]string{
			"image.yaml:44:13: error: \"x\" is not a key that signs grants; `spore shell make-key` prints one",
			`image.yaml:44:62: error: the key "6kpsY+KcUgq+9VB7Ey7F+ZVHdq6+vnuSQh7qaRRG0iw=" exists already, at image.yaml:44; remove one`,
		},
	},
	{
		"microcode without its component",
		[]edit{{"image.yaml", "microcode: false", "microcode: true"}},
		[]string{
			`image.yaml:15:12: error: microcode is in the component non-free-firmware; write components: [main, non-free-firmware], or microcode: false`,
		},
	},
	{
		"microcode in virtual machines",
		[]edit{
			{"image.yaml", "microcode: false", "microcode: true"},
			{"image.yaml", "components: [main]", "components: [main, non-free-firmware]"},
			{"image.yaml", "kernel: generic", "kernel: cloud"},
		},
		[]string{
			`image.yaml:15:12: warning: a virtual machine gets its microcode from its host; with the cloud kernel, write microcode: false`,
		},
	},
	{
		"a package with a version",
		[]edit{{"image.yaml", "packages: []", "packages: [tcpdump=4.99]"}},
		[]string{
			`image.yaml:18:12: error: "tcpdump=4.99" is not the name of a Debian package; write the name alone, such as tcpdump, without version or architecture`,
		},
	},
	{
		"a package twice",
		[]edit{{"image.yaml", "packages: []", "packages: [tcpdump, tcpdump]"}},
		[]string{
			`image.yaml:18:21: error: the package "tcpdump" exists already, at image.yaml:18; remove one`,
		},
	},
	{
		"what nothing leaves out",
		[]edit{{"image.yaml", "keep: []", "keep: [docs, sounds, docs]"}},
		[]string{
			`image.yaml:30:14: error: the kind "sounds" is unknown; did you mean "sound"?`,
			`image.yaml:30:22: error: the kind "docs" exists already, at image.yaml:30; remove one`,
		},
	},
	{
		"paths that nothing can put back",
		[]edit{{"image.yaml", "keepPaths: []", "keepPaths: [/usr/share/zsh, usr/share/zsh, /usr/share/zsh/, '/usr/share/[a']"}},
		[]string{
			`image.yaml:31:29: error: "usr/share/zsh" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
			`image.yaml:31:44: error: "/usr/share/zsh/" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
			`image.yaml:31:61: error: "/usr/share/[a" is not the path of a file or directory; write one as it is in the package, such as /usr/share/zsh or /usr/share/locale/de*`,
		},
	},
	{
		"a path that decides how a machine starts",
		[]edit{{"image.yaml", "keepPaths: []", "keepPaths: [/usr/share/zsh, /usr/lib/systemd/system-generators, /usr/share/zsh]"}},
		[]string{
			`image.yaml:31:29: error: /usr/lib/systemd/system-generators cannot be put back: files there decide how a machine starts; write a path below /usr/bin/, /usr/games/, /usr/include/, /usr/lib/firmware/, /usr/lib/jvm/, /usr/lib/modules/, /usr/lib/x86_64-linux-gnu/, /usr/sbin/, /usr/share/`,
			`image.yaml:31:65: error: the path "/usr/share/zsh" exists already, at image.yaml:31; remove one`,
		},
	},
	{
		"a mirror that is not a URL",
		[]edit{{"image.yaml", "suite: trixie", "mirror: mirror.example/debian"}},
		[]string{
			`image.yaml:6:9: error: "mirror.example/debian" is not the URL of an archive; write http:// or https://, host and path, such as https://mirror.example/debian`,
		},
	},
	{
		"a kernel argument that would replace init",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [init=/bin/sh]"}},
		[]string{
			`image.yaml:19:19: error: the kernel argument init cannot be set here: the machine starts systemd and nothing else; remove it`,
		},
	},
	{
		"a kernel argument that makes every machine one node",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [spore.node=edge-01]"}},
		[]string{
			"image.yaml:19:19: error: the kernel argument spore.node cannot be set here: it would make every machine that node; use `spore flash --node`; remove it",
		},
	},
	{
		"two kernel arguments in one",
		[]edit{{"image.yaml", "kernelArguments: []", "kernelArguments: [\"quiet splash\"]"}},
		[]string{
			`image.yaml:19:19: error: "quiet splash" is not one word of a kernel command line; write each word as an entry of its own, without blanks and quotes`,
		},
	},
	{
		"a slot below the layout",
		[]edit{{"image.yaml", "root: 2048", "root: 1024"}},
		[]string{
			`image.yaml:22:26: error: the slot root of 1024 MiB is below the fixed layout; write 2048 or more`,
		},
	},
	{
		"a slot in bytes",
		[]edit{{"image.yaml", "cluster: 64", "cluster: 67108864"}},
		[]string{
			`image.yaml:22:53: error: the slot cluster of 67108864 MiB is out of bounds; sizes are in MiB, write 64 to 1048576`,
		},
	},
	{
		"a root that outgrows its hash tree",
		[]edit{{"image.yaml", "root: 2048", "root: 8192"}},
		[]string{
			`image.yaml:22:26: error: a root of 8192 MiB needs 70 MiB for its hash tree and the index of its pieces, and the slot verity has 32; write verity: 70`,
		},
	},
	{
		"a format that is not built",
		[]edit{{"image.yaml", "formats: [disk, uki]", "formats: [disk, vmdk]"}},
		[]string{
			`image.yaml:26:17: error: the format "vmdk" is unknown; write disk, iso, netboot, uki or update`,
		},
	},
	{
		"decisions about what is no package",
		[]edit{{"image.yaml", "scripts: {}", "scripts: {TCPdump: {skip: [postinst]}, tcpdump=4.99: {skip: [postinst]}}"}},
		[]string{
			`image.yaml:35:20: error: "TCPdump" is not the name of a Debian package; write the name alone, such as tcpdump, without version or architecture`,
			`image.yaml:35:54: error: "tcpdump=4.99" is not the name of a Debian package; write the name alone, such as tcpdump, without version or architecture`,
		},
	},
	{
		"a script that no decision skips",
		[]edit{{"image.yaml", "scripts: {}", "scripts: {tcpdump: {skip: [postins, preinst, preinst]}}"}},
		[]string{
			`image.yaml:35:28: error: the script "postins" is unknown; did you mean "postinst"?`,
			`image.yaml:35:46: error: the script "preinst" exists already, at image.yaml:35; remove one`,
		},
	},
	{
		"one script where a list belongs",
		[]edit{{"image.yaml", "scripts: {}", "scripts: {tcpdump: {skip: postinst}}"}},
		[]string{
			`image.yaml:35:27: error: skip is a text where a list belongs; write [postinst]`,
		},
	},
	{
		"a misspelt key of a decision",
		[]edit{{"image.yaml", "scripts: {}", "scripts: {tcpdump: {setUid: [/usr/bin/tcpdump]}}"}},
		[]string{
			`image.yaml:35:21: error: unknown key "setUid"; did you mean "setuid"?`,
		},
	},
	{
		"a list of decisions",
		[]edit{{"image.yaml", "scripts: {}", "scripts: [tcpdump]"}},
		[]string{
			`image.yaml:35:10: error: scripts is a list where a mapping belongs; write a name, and its keys below it, indented`,
		},
	},
	{
		"accounts that are no accounts",
		[]edit{{"image.yaml", "scripts: {}", `scripts: {a1: {groups: ["a b", x, x, root], users: [{name: "a:b"}, {name: x, group: "-x", home: "/var/lib/x:0", shell: sh}, {name: x}, {name: root}, {group: x}]}}`}},
		[]string{
			`image.yaml:35:25: error: "a b" is not the name of a group; write 1 to 32 letters, digits, _ and -, with a letter or _ first`,
			`image.yaml:35:35: error: the group "x" exists already, at image.yaml:35; remove one`,
			`image.yaml:35:38: error: every image has the group root; remove it`,
			`image.yaml:35:60: error: "a:b" is not the name of a user; write 1 to 32 letters, digits, _ and -, with a letter or _ first`,
			`image.yaml:35:85: error: "-x" is not the name of a group; write 1 to 32 letters, digits, _ and -, with a letter or _ first`,
			`image.yaml:35:97: error: "/var/lib/x:0" is not a path of passwd(5); write an absolute one without colons and blanks, such as /nonexistent`,
			`image.yaml:35:120: error: "sh" is not a path of passwd(5); write an absolute one without colons and blanks, such as /usr/sbin/nologin`,
			`image.yaml:35:132: error: the user "x" exists already, at image.yaml:35; remove one`,
			`image.yaml:35:143: error: every image has the user root; remove it`,
			`image.yaml:35:150: error: the key "name" is missing; add it and write a text`,
		},
	},
	{
		"modes that are no modes",
		[]edit{{"image.yaml", "scripts: {}", `scripts: {a1: {modes: [{path: /usr/bin/a, mode: "750"}, {path: /usr/bin/a, mode: 0750}, {path: /usr/bin/b}, {path: usr/bin/c, owner: "", group: "a,b"}, {mode: "9999"}]}}`}},
		[]string{
			`image.yaml:35:49: error: "750" is not a mode; write four octal digits in quotes, such as "0750"`,
			`image.yaml:35:64: error: the path "/usr/bin/a" exists already, at image.yaml:35; write all about it into one entry`,
			`image.yaml:35:82: error: mode is a number where a text belongs; put it into quotes: "0750"`,
			`image.yaml:35:89: error: the entry changes nothing; write one of owner, group, mode and capabilities, or remove it`,
			`image.yaml:35:116: error: "usr/bin/c" is not a path in the image; write an absolute one without . and .. and blanks, such as /usr/bin/tcpdump`,
			`image.yaml:35:134: error: "" is not the name of a user; write 1 to 32 letters, digits, _ and -, with a letter or _ first`,
			`image.yaml:35:145: error: "a,b" is not the name of a group; write 1 to 32 letters, digits, _ and -, with a letter or _ first`,
			`image.yaml:35:153: error: the key "path" is missing; add it and write a text`,
			`image.yaml:35:160: error: "9999" is not a mode; write four octal digits in quotes, such as "0750"`,
		},
	},
	{
		"capabilities that are no capabilities",
		[]edit{{"image.yaml", "scripts: {}", `scripts: {a1: {modes: [{path: /usr/bin/a, capabilities: cap_net_row=ep}, {path: /usr/bin/b, capabilities: all=ep}, {path: /usr/bin/c, capabilities: cap_net_raw}]}}`}},
		[]string{
			`image.yaml:35:57: error: "cap_net_row=ep" does not give capabilities: "cap_net_row" is not a capability; did you mean "cap_net_raw"?`,
			`image.yaml:35:107: error: "all=ep" does not give capabilities: "all" is not a capability; write them as for setcap(8), such as cap_net_bind_service,cap_net_raw=ep`,
			`image.yaml:35:149: error: "cap_net_raw" does not give capabilities: "cap_net_raw" has no =, + or - with the letters e, i and p; write them as for setcap(8), such as cap_net_bind_service,cap_net_raw=ep`,
		},
	},
	{
		"paths that decisions cannot change",
		[]edit{{"image.yaml", "scripts: {}", `scripts: {a1: {setuid: [/usr/bin/../bin/a, /, /usr/bin/spore-agent, /proc/self/exe, /usr/bin/a, /usr/bin/a, "/usr/bin/a b"]}}`}},
		[]string{
			`image.yaml:35:25: error: "/usr/bin/../bin/a" is not a path in the image; write an absolute one without . and .. and blanks, such as /usr/bin/tcpdump`,
			`image.yaml:35:44: error: "/" is not a path in the image; write an absolute one without . and .. and blanks, such as /usr/bin/tcpdump`,
			`image.yaml:35:47: error: /usr/bin/spore-agent cannot be changed: the machine is run by it; remove the entry`,
			`image.yaml:35:69: error: /proc/self/exe cannot be changed: what is mounted there hides it; remove the entry`,
			`image.yaml:35:97: error: the program "/usr/bin/a" exists already, at image.yaml:35; remove one`,
			`image.yaml:35:109: error: "/usr/bin/a b" is not a path in the image; write an absolute one without . and .. and blanks, such as /usr/bin/tcpdump`,
		},
	},
	{
		"links that lead nowhere",
		[]edit{{"image.yaml", "scripts: {}", `scripts: {a1: {links: [{path: /usr/bin/a, target: b}, {path: /usr/bin/b, target: /usr/bin/b}, {path: /dev/null, target: /usr/bin/b}, {path: /usr/bin/c}]}}`}},
		[]string{
			`image.yaml:35:51: error: "b" is not a path in the image; write an absolute one, such as /usr/bin/vim.tiny`,
			`image.yaml:35:82: error: the link leads to itself; write the file that it is for`,
			`image.yaml:35:102: error: /dev/null cannot be changed: what is mounted there hides it; remove the entry`,
			`image.yaml:35:134: error: the key "target" is missing; add it and write a text`,
		},
	},
	{
		"answers to nothing",
		[]edit{{"image.yaml", "debconf: {}", `debconf: {Postfix: {a: b}, a1: {"a b": c, a1/b: true, a1/c: "two\nlines"}}`}},
		[]string{
			`image.yaml:39:20: error: "Postfix" is not the name of a Debian package; write the name alone, such as tcpdump, without version or architecture`,
			`image.yaml:39:40: error: "a b" is not the name of a question; write it as in the package's templates, such as postfix/main_mailer_type`,
			`image.yaml:39:49: error: a1/b is true or false where a text belongs; put it into quotes: "true"`,
			`image.yaml:39:61: error: the answer to a1/c is not one line of at most 4096 bytes; write it as debconf would show it`,
		},
	},
	{
		"secrets as answers",
		[]edit{{"image.yaml", "debconf: {}", `debconf: {a1: {a1/admin-pass: x1, a1/password_again: x2, a1/password1: x3, a1/shared-secret: x4, a1/adminpw: x5, a1/bypass: "true"}}`}},
		[]string{
			`image.yaml:39:31: error: the question a1/admin-pass asks for a secret: no secret in an image; remove it, and give the secret on the node`,
			`image.yaml:39:54: error: the question a1/password_again asks for a secret: no secret in an image; remove it, and give the secret on the node`,
			`image.yaml:39:72: error: the question a1/password1 asks for a secret: no secret in an image; remove it, and give the secret on the node`,
			`image.yaml:39:79: error: this line holds a literal secret; it would be readable in every image, also in a comment: put it into the bundle and name it by secretRef`,
			`image.yaml:39:94: error: the question a1/shared-secret asks for a secret: no secret in an image; remove it, and give the secret on the node`,
			`image.yaml:39:110: error: the question a1/adminpw asks for a secret: no secret in an image; remove it, and give the secret on the node`,
		},
	},
}
