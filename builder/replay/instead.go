package replay

// instead has, by PACKAGE.SCRIPT, what scripts in Perl do at a first installation with the defaults of debconf.
var instead = map[string]string{
	// Without a realm it fills in nothing.
	"krb5-config.postinst": "[ -e /etc/krb5.conf ] || cp /usr/share/kerberos-configs/krb5.conf.template /etc/krb5.conf\n",
}
