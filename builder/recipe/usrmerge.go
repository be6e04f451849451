package recipe

// mergedDirs are the top-level directories that are links into /usr (base-files preinst; debian-policy, merged /usr).
var mergedDirs = []string{"bin", "lib", "lib64", "sbin"}

// usrMerge makes the links before anything is unpacked, as debootstrap does. sbin and bin stay apart in Debian.
func usrMerge(b *build) error {
	for _, d := range mergedDirs {
		if err := b.dir("/usr/"+d, 0o755, "merged /usr"); err != nil {
			return err
		}
		if err := b.link("usr/"+d, "/"+d, "merged /usr"); err != nil {
			return err
		}
	}
	return nil
}
