#include "net/tls_fault.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

static const char *certificate_fault(long code) {
  switch (code) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    return "TLS: the server's certificate, or one that signed it, has expired";
  case X509_V_ERR_CERT_NOT_YET_VALID:
    return "TLS: the server's certificate is not valid yet (is a clock wrong?)";
  case X509_V_ERR_HOSTNAME_MISMATCH:
    return "TLS: the server's certificate is for another host name (its subjectAltName must hold "
           "the name in the address)";
  case X509_V_ERR_IP_ADDRESS_MISMATCH:
    return "TLS: the server's certificate does not name this IP address (its subjectAltName must "
           "hold it)";
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    return "TLS: the server's certificate is self-signed and not among the trusted ones";
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    return "TLS: the server's certificate comes from an authority that is not trusted";
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    return "TLS: the server's certificate comes from an authority that is not trusted, or its "
           "chain is incomplete";
  case X509_V_ERR_INVALID_CA:
  case X509_V_ERR_INVALID_NON_CA:
  case X509_V_ERR_PATH_LENGTH_EXCEEDED:
  case X509_V_ERR_CERT_CHAIN_TOO_LONG:
  case X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
  case X509_V_ERR_CA_CERT_MISSING_KEY_USAGE:
    return "TLS: the server's certificate is signed by one that may not sign it";
  case X509_V_ERR_INVALID_PURPOSE:
    return "TLS: the server's certificate is not meant for servers";
  case X509_V_ERR_CERT_REVOKED:
    return "TLS: the server's certificate is revoked";
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    return "TLS: the server's certificate is not signed by the trusted authority whose name it "
           "bears";
  case X509_V_ERR_EE_KEY_TOO_SMALL:
  case X509_V_ERR_CA_KEY_TOO_SMALL:
  case X509_V_ERR_CA_MD_TOO_WEAK:
    return "TLS: the server's certificate is too weak for this machine's security level";
  case X509_V_ERR_PERMITTED_VIOLATION:
  case X509_V_ERR_EXCLUDED_VIOLATION:
    return "TLS: the server's certificate names a host its authority may not sign for";
  default:
    return "TLS: the server's certificate does not hold (openssl verify tells more)";
  }
}

/* Alerts of the peer, on either side and in either phase; NULL for what is none. */
static const char *alert_fault(int reason) {
  switch (reason) {
  case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    return "TLS: no version in common; 1.2 or newer is needed";
  case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    return "TLS: the peer finds nothing in common (ciphers, groups, kinds of keys)";
  case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
  case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
  case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
  case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    return "TLS: the peer does not accept our certificate";
  case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
    return "TLS: the peer asks for a client certificate, and none is used here";
  case SSL_R_TLSV1_UNRECOGNIZED_NAME:
    return "TLS: the peer does not know the host name it was asked for";
  default:
    return reason >= SSL_AD_REASON_OFFSET ? "TLS: the peer ended it with an alert" : NULL;
  }
}

/* The reason the TLS layer gave, 0 where it gave none: then the connection below it failed. What
 * other parts of OpenSSL noted on the way (a file not found, an odd field) stands before it. */
static int tls_reason(void) {
  unsigned long error;
  while ((error = ERR_get_error()))
    if (ERR_GET_LIB(error) == ERR_LIB_SSL) return ERR_GET_REASON(error);
  return 0;
}

const char *tkt_tls_handshake_fault(const SSL *ssl, const char *below) {
  int reason = tls_reason();
  if (reason == 0)
    return below ? below : "TLS: the peer closed the connection during the handshake";
  const char *alert = alert_fault(reason);
  if (alert) return alert;
  switch (reason) {
  case SSL_R_CERTIFICATE_VERIFY_FAILED:
    return certificate_fault(SSL_get_verify_result(ssl));
  case SSL_R_WRONG_VERSION_NUMBER:
  case SSL_R_HTTP_REQUEST:
  case SSL_R_HTTPS_PROXY_REQUEST:
  case SSL_R_PACKET_LENGTH_TOO_LONG:
  case SSL_R_RECORD_LENGTH_MISMATCH:
  case SSL_R_BAD_RECORD_TYPE:
  case SSL_R_UNKNOWN_PROTOCOL:
    return "TLS: the peer does not speak TLS on this port";
  case SSL_R_UNSUPPORTED_PROTOCOL:
  case SSL_R_VERSION_TOO_LOW:
  case SSL_R_WRONG_SSL_VERSION:
    return "TLS: no version in common; 1.2 or newer is needed";
  case SSL_R_NO_SHARED_CIPHER:
  case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
  case SSL_R_NO_SUITABLE_KEY_SHARE:
  case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS:
    return "TLS: nothing in common (ciphers, groups, kinds of keys)";
  case SSL_R_UNEXPECTED_EOF_WHILE_READING:
    return "TLS: the peer closed the connection during the handshake";
  default:
    return "TLS: the handshake failed";
  }
}

const char *tkt_tls_session_fault(const char *below) {
  int reason = tls_reason();
  if (reason == 0 && below) return below;
  const char *alert = alert_fault(reason);
  return alert ? alert : "TLS: what arrived is no valid record";
}
