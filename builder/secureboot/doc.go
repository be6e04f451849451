// Package secureboot signs programs for UEFI Secure Boot and makes the keys and variables that firmware checks them with.
//
// What it writes is that of packages authenticode and siglist: signatures carry no time, so that the same program and key
// give the same bytes, and variables follow UEFI 2.10.
//
// It leaves out time stamps, chains of certificates, and keys on hardware tokens.
package secureboot
