package replay

// done are scripts that do to all packages what a step of the recipe does, or that are not shell scripts, by
// PACKAGE.SCRIPT, with the reason why nothing is left to do.
var done = map[string]string{
	"ca-certificates-java.postinst": "a program in Java makes its key store; programs of the image are told in PEM whom they trust",
	"krb5-config.config":            "it asks for names of the node; they are in the configuration that the overlay gives",
	"postfix.config":                "it asks for names of the node; they are in the configuration that the overlay gives",
}
