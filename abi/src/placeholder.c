typedef int tkt_placeholder;
