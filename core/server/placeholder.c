typedef int tkt_placeholder; /* removed when this folder has its first file */
