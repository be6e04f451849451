package recipe

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const jre = "/usr/lib/jvm/java-21-openjdk-amd64"

func TestJavaIsFoundByItsNameAndHasNoKeyStore(t *testing.T) {
	r := compose(t, Options{},
		withScript(pkg("openjdk-21-jre-headless", "",
			fileEntry(jre+"/bin/java", "elf", 0o755), fileEntry(jre+"/lib/server/classes.jsa", "heap below 32 GiB", 0o644),
			fileEntry(jre+"/lib/server/classes_nocoops.jsa", "larger heap", 0o644), fileEntry(jre+"/lib/libnet.so", "elf", 0o644),
			fileEntry(jre+"/lib/libjsound.so", "elf", 0o644), linkEntry(jre+"/lib/security/cacerts", "/etc/ssl/certs/java/cacerts")),
			"postinst", "update-alternatives --install /usr/bin/java java "+jre+"/bin/java 2111\n"),
		pkg("ca-certificates-java", "", dirEntry("/etc/ssl/certs/java", 0o755), fileEntry("/etc/default/cacerts", "storepass=", 0o600)),
		pkg("java-common", "", fileEntry("/usr/sbin/update-java-alternatives", "#!/bin/sh\n", 0o755)))
	require.Equal(t, "elf", text(t, r.Tree, "/usr/bin/java"))
	require.Equal(t, []string{"classes.jsa"}, r.Tree.Children(jre+"/lib/server"))
	require.Equal(t, []string{"libnet.so", "security", "server"}, r.Tree.Children(jre+"/lib"))
	require.Empty(t, r.Tree.Children(jre+"/lib/security"), "a link that leads nowhere")
	for _, p := range []string{"/etc/ssl/certs/java", "/etc/default/cacerts", "/usr/sbin/update-java-alternatives", "/usr/bin/keytool"} {
		require.False(t, r.Tree.Exists(p), p)
	}
}
