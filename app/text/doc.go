// Package text says sentences in the language of who reads them.
//
// As with gettext, the English sentence (a format of package fmt) is the key:
// code and templates hold plain English, and the catalogue of another language
// says how each sentence is written there. A sentence the catalogue does not have
// is said in English; a test keeps that from happening.
//
// Sentences that are made where no language is known, as errors are, are an
// app.Text, whose arguments are kept: it is a Phrase, and the edge that answers says it.
//
// It decides no locale: In takes that of an account, Accept what a browser asks
// for. The API and the panel use it. Logs, the audit log and the command line are
// English, and the values that programs compare are never translated.
//
// A catalogue is a file named after its locale, such as pt-BR.txt and es.txt. An entry is
// one line, in the order of the English, both sides quoted as in Go:
//
//	"Token %q was revoked." = "O token %q foi revogado."
//
// A translation that needs another order numbers its verbs: "%[2]s de %[1]s". Lines
// that are empty or begin with # say nothing.
package text
